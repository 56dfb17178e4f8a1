"""PPO's update of small networks as one native call."""
