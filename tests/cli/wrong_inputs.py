"""Wrong inputs, their exit codes and a piece of the answer; `@name` is a prepared path."""

from __future__ import annotations

CART = "train gym:CartPole-v1"
TINY = (
    "--set collect.num_steps=16 --set learn.n_epochs=1 --set total_timesteps=96 --num-envs 2 "
    "--quiet --set evaluate.final_episodes=0 --set env.check_seeds=false --no-report"
)
GATE = (
    "train fish --set total_iterations=24 --set evaluate.every_iterations=8 "
    "--set options.training.curriculum=[{fish=20,iterations=8},{fish=25,iterations=16}] "
    "--set 'options.training.ladder.phase_targets=[0.0, 0.1]' "
    "--set 'options.training.gate.phase_allowance=[1, 2]'"
)

COMMANDS = (
    ("trian", 2, "No such command 'trian'. Did you mean 'train'?"),
    ("fly", 2, "No such command 'fly'"),
    ("train", 2, "Missing argument 'task'"),
    (f"{CART} --runs x", 2, "--runs-root"),
    (f"{CART} --learning-rate 1", 2, "No such option: --learning-rate"),
    (f"{CART} --seed one", 2, "--seed"),
    ("compare", 2, "Missing argument 'targets'"),
    ("bench", 2, "Usage: longhaul bench"),
    ("new-experiment", 2, "Missing option '--from'"),
)

TASKS = (
    ("train CartPole-v1", 2, "did you mean 'gym:CartPole-v1'"),
    ("train gmy:CartPole-v1", 2, "did you mean 'gym:CartPole-v1'"),
    ("train chess", 2, "(tasks: atari, fish, gym, mario, nethack, pettingzoo, probe"),
    ("train gym", 2, "needs an environment id"),
    ("train gym:Cartpole-v1", 2, "did you mean 'CartPole-v1'?"),
    ("train gym:CartPol-v1", 2, "did you mean 'CartPole-v1'?"),
    ("train gym:CartPole-v9", 2, "did you mean 'CartPole-v1'?"),
    ("train gym:Nope-v0", 2, "is not known to Gymnasium"),
    ("train gym:ALE/Pong-v5", 2, "Atari games are tasks: atari:Pong"),
    ("train gym:no_such_module:Env-v0", 2, "no_such_module"),
    ("train pettingzoo:pistonball_v6", 2, "'pistonball_v6' cannot be imported: No module"),
    ("train probe:rekall", 2, "did you mean 'recall'"),
    ("train fish:25", 2, "takes no argument"),
    ("train nethack:val", 2, "takes no argument"),
    ("train mario:1-1", 2, "there is no task 'mario:1-1'"),
    ("train gym:Toy/TextObservation-v0", 2, "Text"),
    ("train gym:Toy/GraphAction-v0", 2, "Graph"),
)

FLAGS = (
    (f"{CART} --total-timesteps abc", 2, "--total-timesteps takes a whole number"),
    (f"{CART} --total-timesteps 1.5", 2, "such as 100000 or 1e6, not '1.5'"),
    (f"{CART} --total-timesteps 1e6 --dry-run", 0, "total_timesteps = 1000000"),
    (f"{CART} --total-timesteps 1_000_000 --dry-run", 0, "total_timesteps = 1000000"),
    (f"{CART} --total-timesteps -5", 2, "total_timesteps must be at least 1, not -5"),
    (f"{CART} --total-timesteps 0", 2, "total_timesteps must be at least 1, not 0"),
    (f"{CART} --num-envs 0", 2, "num_envs must be at least 1, not 0"),
    (f"{CART} --num-envs -3", 2, "num_envs must be at least 1, not -3"),
    (f"{CART} --num-envs many", 2, "--num-envs takes a whole number"),
    (f"{CART} --num-envs 100000000 --dry-run", 0, "MiB and the machine has"),
    (f"{CART} --num-envs 100000000", 6, "lower num_envs, collect.num_steps"),
    (f"{CART} --num-envs 1000000000000", 6, "the machine has"),
    (f"{CART} --seed -1", 2, "seed must be at least 0"),
    (f"{CART} --seed 100000000000000000000000 --dry-run", 0, "seed = 100000000000000000000000"),
    (f"{CART} --name ../../x --dry-run", 0, "the folder of run '../../x' is named 'x'"),
    (f"{CART} --name '/srv/a b; rm' --dry-run", 0, "is named 'srv-a-b-rm'"),
    (f"{CART} --name größe --dry-run", 0, "the folder of run 'größe' is named 'grosse'"),
    (f"{CART} --name größe-日本", 2, "'größe-日本' cannot name a folder; use 1 to 80 of a-z"),
    (f"{CART} --name 日本", 2, "cannot name a folder; use 1 to 80 of a-z"),
    (f"{CART} --name ''", 2, "cannot name a folder"),
    (f"{CART} --name ///", 2, "cannot name a folder"),
    (f"{CART} --name {'n' * 300}", 2, "cannot name a folder"),
    (f"{CART} --device gpu", 2, "use auto, cpu, cuda"),
    (f"{CART} --device meta", 2, "not supported"),
    (f"{CART} --device cpu --require-gpu", 2, "--require-gpu"),
    (f"{CART} --preset fast", 2, "has no preset 'fast'"),
    (f"{CART} --preset CartPole", 2, "did you mean 'CartPole-v1'"),
    (f"{CART} --track foo", 2, "there is no choice 'foo' (choices: tensorboard, wandb, mlflow"),
    (f"{CART} --resume maybe", 2, "unknown --resume 'maybe'"),
    (f"{CART} --runs-root /proc/x", 2, "cannot create a run in /proc/x"),
    (f"{CART} --runs-root /dev/null", 2, "cannot create a run in /dev/null"),
    (
        "train fish --preset gate --total-timesteps 5000",
        2,
        "the length of the run is total_iterations = 60",
    ),
)

FILES = (
    (f"{CART} --config nowhere.toml", 2, "config file 'nowhere.toml' does not exist"),
    (f"{CART} --config @folder", 2, "cannot be read"),
    (f"{CART} --config @binary.toml", 2, "cannot be read"),
    (f"{CART} --config @cut.toml", 2, "is not valid TOML"),
    (f"{CART} --config @yaml.toml", 2, "is not valid TOML"),
    (f"{CART} --config @pickle.toml", 2, "cannot be read"),
    (f"{CART} --config @typo.toml", 2, "did you mean 'learn.n_epochs'"),
    (f"{CART} --config @fish.toml", 2, "the config is for task \"fish\", not 'gym:CartPole-v1'"),
    (f"{CART} --config @lengths.toml", 2, "total_timesteps would have no effect"),
    (f"{CART} --config @rates.toml", 2, "learn.learning_rate = 1e-05 would have no effect"),
    ("config gym:CartPole-v1 --config @folder", 2, "cannot be read"),
)

KEYS = (
    ("lern.epochs=3", "did you mean 'learn'?"),
    ("learn.epoch=3", "did you mean 'learn.n_epochs'?"),
    ("totaltimesteps=3", "did you mean 'total_timesteps'?"),
    ("options.kwarg.a=3", "did you mean 'options.kwargs'?"),
    ("learn.foo=3", "`longhaul config TASK` lists all keys"),
    ("learn.discount=0.9", "did you mean 'learn.gamma'?"),
    ("learn.lr=0.9", "did you mean 'learn.learning_rate'?"),
    ("learn.value_coef=0.9", "did you mean 'learn.vf_coef'?"),
    ("learn.n_steps=9", "did you mean 'collect.num_steps'?"),
    ("learn.clip=0.9", "did you mean 'learn.clip_range'?"),
    ("norm_obs=true", "did you mean 'policy.normalize_observations'?"),
    ("learn.gae_decay=0.9", "did you mean 'learn.gae_lambda'?"),
    ("learn.entropy_coef=0.9", "did you mean 'learn.ent_coef'?"),
    ("batch_size=9", "did you mean 'learn.minibatch_size'?"),
    ("learn.total_timesteps=9", "did you mean 'total_timesteps'?"),
    ("learn.n_epochs", "--set takes key=value"),
    ("=3", "--set takes key=value"),
    ("learn=3", "learn is a table of settings, not 3"),
    ("learn.n_epochs=three", "learn.n_epochs: expected int"),
    ("learn.n_epochs=1.5", "learn.n_epochs must be a whole number, not 1.5"),
    ("learn.n_epochs=0", "learn.n_epochs = 0 must be at least 1"),
    ("total_timesteps=1.5", "total_timesteps must be a whole number, not 1.5"),
    ("policy.hidden=64", "policy.hidden: expected array"),
    ("policy.hidden=[0]", "policy.hidden"),
    ("policy.core=grue", "did you mean 'gru'"),
    ("policy.trunk=nature", "needs images"),
    ("learn.algorithm=sac", "there is no choice 'sac' (choices: ppo, vtrace)"),
    ("learn.learning_rate=-1", "learn.learning_rate = -1.0 must be above 0"),
    ("learn.learning_rate=nan", "learn.learning_rate = nan must be a finite number above 0"),
    ("learn.learning_rate=inf", "learn.learning_rate = inf must be a finite number above 0"),
    ("learn.gamma=1.5", "learn.gamma = 1.5 must be between 0 and 1"),
    ("collect.chunk=7", "must divide collect.num_steps"),
    ("env.runtime=threads", "there is no choice 'threads'"),
    ("env.tier=snapshot", "env.tier"),
    ("hints.silent=['nope']", "there is no rule 'nope'"),
    ("options.kwargs.foo=1", "does not take"),
    ("options.max_episode_steps=-1", "must be at least 0"),
    ("task=fish", 'the config is for task "fish"'),
)

RAMP = "kind='ramp', name='x'"
NUDGE = "kind='nudge', name='x', setting='learn.ent_coef', limits=[0,1]"
RATE = "setting='learn.learning_rate'"
SCHEDULES = (
    ("{kind='rampp', name='x'}", "'ramp'"),
    ("{name='x'}", "schedule.x.kind is missing"),
    (f"{{{RAMP}}}", "schedule.x.setting is missing"),
    (f"{{{RAMP}, setting='learn.learning_rat'}}", "did you mean 'learn.learning_rate'"),
    (f"{{{RAMP}, setting='learn.lr'}}", "did you mean 'learn.learning_rate'"),
    (f"{{{RAMP}, {RATE}, start=-1.0}}", "outside [0.0, None]"),
    (f"{{{RAMP}, {RATE}, begin=1.0}}", "unknown config key 'schedule.x.begin'"),
    (f"{{{RAMP}, {RATE}}}, {{{RAMP}, {RATE}}}", "two controllers are called 'x'"),
    (f"{{{RAMP}, {RATE}}}, {{kind='ramp', name='y', {RATE}}}", "both write"),
    (f"{{{NUDGE}, metric='train/entropy_los', band=[0,1]}}", "did you mean 'train/entropy_loss'"),
    (f"{{{NUDGE}, metric='no/such', band=[0,1]}}", "reads 'no/such', which nothing measures"),
    (f"{{{NUDGE}, metric='train/loss', band=[1,0]}}", "has its lower end above"),
)

OTHER_TASKS = (
    ("train fish --set options.fihs=3", 2, "did you mean 'options.fish'"),
    ("train fish --set options.training.gate.succes_p10=3", 2, "options.training.gate.success_p10"),
    (f"{GATE} --set options.training.gate.failure_p10=200", 2, "failure_p10 = 200 is above"),
    (f"{GATE} --set evaluate.suite=v83", 2, "did you mean 'v38'"),
    ("train fish --set options.tail.path=none.js --set options.tail.iterations=3", 2, "none.js"),
    (
        "train fish --set options.training.curriculum=[{fish=20,iterations=8}]", 2,
        "total_iterations must be set",
    ),
    (
        "train fish --preset gate --set options.reward.density_penalty=0.5", 2,
        "change options.training.ladder instead",
    ),
    ("train nethack --set learn.learning_rate=1e-5", 2, "change options.phases instead"),
    ("train nethack --set learn.ent_coef=0.5", 2, "change options.phases instead"),
    ("train mario:standin --set options.reward.deth=1", 2, "did you mean 'options.reward.death'"),
    ("train mario:standin --set 'options.stages=[\"9-9\"]'", 2, "9-9"),
    ("train mario --set options.rom=nowhere.nes", 3, "nowhere.nes"),
    (f"train gym:Toy/BrokenReset-v0 {TINY} --set env.most_dropped=2", 3, ""),
    (f"train gym:Toy/BrokenStep-v0 {TINY} --set env.most_dropped=2", 3, ""),
    (f"train gym:Toy/NanReward-v0 {TINY} --set env.most_dropped=2", 4, ""),
)  # fmt: skip

RUNS = (
    *((f"{command} @folder", 2, "is not a run directory: it has no run.json") for command in (
        "resume", "evaluate", "watch", "report", "hints", "metrics", "tail", "export", "repair",
        "schedule-replay", "records", "study", "new-experiment --from", "compare @run",
    )),
    ("inspect nowhere", 2, "nowhere does not exist"),
    ("inspect @folder", 2, "is neither a run directory nor a checkpoint"),
    ("compare @run", 2, "a comparison needs at least two runs"),
    ("evaluate @run --checkpoint 77", 5, "has no checkpoint '77' (there: step-"),
    ("evaluate @run --checkpoint best", 5, "evaluate.every_iterations"),
    ("evaluate @run --episodes 0", 2, "--episodes must be at least 1, not 0"),
    ("evaluate @run --suite v38", 2, "need evaluation suites"),
    ("watch @run --episode 999", 2, "has no episode 999"),
    ("watch @run --episode wurst", 2, "wurst"),
    ("metrics @run --select nope", 2, "matches 'nope'"),
    ("tail @run --log nope", 2, "there is no log 'nope'"),
    ("export @run --checkpoint 77", 5, "has no checkpoint '77'"),
    ("study @run", 2, "has no studies"),
    ("resume @run --set learn.n_epochs=7", 2, "(learn.n_epochs: 1 -> 7); give the old values"),
    ("resume @run --set learn.discount=0.9", 2, "did you mean 'learn.gamma'"),
    ("resume @run --total-timesteps 1.5", 2, "takes a whole number"),
    (
        f"{CART} {TINY} --set policy.hidden=[4] --name cut --runs-root @runs", 2,
        "or start a new run with `train --resume never` or another --name",
    ),
    ("resume @garbled", 2, "run.json is damaged"),
    ("resume @future", 2, "99"),
    ("resume @foreign --quiet", 5, ""),
    ("evaluate @flipped --checkpoint 96", 5, "does not match its hash"),
    ("inspect @flipped/checkpoints/step-000000000096", 5, "does not match its hash"),
    ("evaluate @emptied --checkpoint 96", 5, "has 0 bytes instead of"),
)  # fmt: skip

OTHERS = (
    ("search gym:CartPole-v1 --trials 0", 2, "--trials must be at least 1, not 0"),
    ("search gym:CartPole-v1 --budget banana", 2, "'banana'"),
    ("search gym:CartPole-v1 --timesteps 1.5", 2, "--timesteps takes a whole number"),
    ("search gym:CartPole-v1 --take most", 2, "unknown --take 'most'"),
    ("search gym:CartPole-v1 --pruner none-such", 2, "unknown --pruner 'none-such'"),
    ("search gym:CartPole-v1 --objective eval/mean_rewrd", 2, "did you mean 'eval/mean_reward'"),
    ("search gym:CartPole-v1 --space learn.foo=float:0..1", 2, "`longhaul config TASK` lists"),
    ("search gym:CartPole-v1 --space learn.lr=log:1e-5..1", 2, "'learn.learning_rate'"),
    ("search gym:CartPole-v1 --space learn.n_epochs=int:0..4", 2, "learn.n_epochs = 0 must be"),
    ("search gym:CartPole-v1 --space learn.n_epochs", 2, "--space takes KEY=KIND:VALUES"),
    ("search nethack --space learn.learning_rate=log:1e-5..1", 2, "change options.phases"),
    ("compare gym:CartPole-v1 --arms default", 2, "--arms needs at least two arms"),
    ("compare gym:CartPole-v1 --arms default,default", 2, "two arms have the same name"),
    ("compare gym:CartPole-v1 --arms default,a:learn.discount=1", 2, "'learn.gamma'"),
    ("compare nethack --arms default,a:learn.learning_rate=1", 2, "change options.phases"),
    ("mario campaign --budget banana", 2, "'banana'"),
    ("mario campaign --stages 9-9", 2, "9-9"),
    ("serve nowhere", 2, "nowhere is not a folder"),
    ("serve @folder --port 99999", 2, "99999"),
    ("import-torch /etc/passwd --task gym:CartPole-v1", 2, "no code of it was run"),
    ("reproduce nowhere.json", 2, "nowhere.json cannot be read"),
    ("reproduce @typo.toml", 2, "is not a repro file"),
    ("mario play --stage 9-9", 2, "there is no stage 9-9"),
    ("tool fish nope", 2, "has no tool 'nope'"),
    ("doctor --trials 3", 2, "--trials needs a task"),
    ("warm-up chess", 2, "unknown task 'chess'"),
    ("config gym:CartPole-v1 --preset nothing", 2, "has no preset 'nothing'"),
    ("verify-resume --iterations 1", 2, ""),
    ("verify-resume --interruptions -1", 2, ""),
    ("bench env --seconds 0", 2, "--seconds must be more than 0"),
    ("bench train --repeats 0", 2, ""),
    ("bench train --total-timesteps 1 --repeats 1", 2, ""),
)

ROWS: tuple[tuple[str, int, str], ...] = (
    *COMMANDS,
    *TASKS,
    *FLAGS,
    *FILES,
    *((f'{CART} --set "{change}"', 2, says) for change, says in KEYS),
    *((f'{CART} --set "schedule=[{tables}]"', 2, says) for tables, says in SCHEDULES),
    *OTHER_TASKS,
    *RUNS,
    *OTHERS,
)
