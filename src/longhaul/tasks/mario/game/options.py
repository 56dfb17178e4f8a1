"""What can be said about the games in a configuration."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from longhaul.core.errors import ConfigError
from longhaul.core.settings import Setting
from longhaul.tasks.mario.actions import ActionSet, action_set
from longhaul.tasks.mario.console.picture import Picture
from longhaul.tasks.mario.game.stages import Lottery, lottery

Observation = Literal["tiles", "pixels", "both"]

MOST_STICKY = 0.99
"""Beyond it hardly any decision would be heard."""
SCRIPT_SHARE: Setting[float] = Setting(
    "mario.script_share",
    1.0,
    "Share of the episodes that begin with the script of the options",
    low=0.0,
    high=1.0,
)


@dataclass(frozen=True, slots=True)
class GameOptions:
    """How the game is played: stages, buttons, what is seen, and when an episode ends."""

    rom: str = ""
    """The game's .nes file; empty looks for LONGHAUL_SMB_ROM and the package gym-super-mario-bros;
    `standin` is a free cartridge that comes with longhaul."""
    stages: tuple[str, ...] = ("1-1",)
    """Stages to play, `1-1` to `8-4`, or ranges, `1-1..1-4`; one is drawn per episode."""
    stage_weights: tuple[float, ...] = ()
    """How often each is drawn; empty: all alike. The setting `mario.stages` overrides it."""
    observation: Observation = "tiles"
    """What agents see: `tiles` around Mario with a few numbers, read from the game's memory,
    `pixels` of the screen, or `both`."""
    picture: Picture = field(default_factory=Picture)
    """How pixels are shown."""
    held_buttons: bool = False
    """Observe beside pixels whether A and B were held in the last frame: no picture shows it, and
    Mario does not jump again while A is held. The numbers beside tiles always contain it."""
    course_numbers: bool = False
    """Observe the stage, the area and a maze's counters as well, for one policy for many stages; in
    pixels and tiles alone two stages may look the same."""
    actions: str = "simple"
    """The set of button combinations: `right`, `simple`, `complex` or `extended`."""
    buttons: tuple[str, ...] = ()
    """Other combinations instead, such as `RIGHT+A`; `NOOP` presses nothing."""
    frame_skip: int = 4
    """Frames for which the buttons of one decision are held."""
    sticky: float = 0.0
    """Probability that an action is ignored and the previous one is repeated."""
    noop_frames: int = 0
    """Up to this many frames without buttons before an episode begins; drawn per episode."""
    time_limit: int = 0
    """Decisions after which an episode is cut; 0: none."""
    stagnation_limit: int = 400
    """Decisions without new ground after which an episode is cut; 0: none."""
    ends_at_death: bool = True
    """Whether losing one life ends the episode; otherwise the last one does."""
    ends_at_clear: bool = True
    """Whether clearing the stage ends the episode; otherwise the game goes on with the next."""
    ends_at_warp: bool = False
    """Whether going on with another stage than the next one ends the episode; it does anyway with
    `ends_at_clear`."""
    cuts_scenes: bool = True
    """Whether black screens and ways through pipes are cut short by writing the game's timers;
    otherwise a game follows from its buttons alone, as in a movie."""
    script: str = ""
    """Buttons forced at the beginning of episodes, `RIGHT+B:20,A` with decisions after the colon.
    Forced steps train nothing; the setting `mario.script_share` says how many episodes have it."""
    trail: int = 0
    """Snapshots kept of the last part of each episode, for hard starts; 0 keeps none."""
    trail_every: int = 8
    """Decisions between two of them."""

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("frame_skip", self.frame_skip, 1, 60),
            ("sticky", self.sticky, 0.0, MOST_STICKY),
            ("noop_frames", self.noop_frames, 0, 600),
            ("time_limit", self.time_limit, 0, 10**9),
            ("stagnation_limit", self.stagnation_limit, 0, 10**9),
            ("trail", self.trail, 0, 64),
            ("trail_every", self.trail_every, 1, 10**6),
        ):
            if not low <= value <= high:
                raise ConfigError(f"options.{name} = {value} must be between {low} and {high}")
        self.lottery()
        self.action_set()

    def lottery(self) -> Lottery:
        """Return the stages and their weights."""
        return lottery(self.stages, self.stage_weights)

    def action_set(self) -> ActionSet:
        """Return the combinations a policy chooses from."""
        return action_set(self.actions, self.buttons)

    @property
    def sees_tiles(self) -> bool:
        """Whether tiles are shown."""
        return self.observation != "pixels"

    @property
    def sees_pixels(self) -> bool:
        """Whether pixels are shown."""
        return self.observation != "tiles"
