"""Learning the tables of a population of models by running it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from clusterdyn.graph import Partition
from clusterdyn.model import BoundCell, MessagePassingCell
from clusterdyn.qlearning.config import QLearningConfig, check_reward
from clusterdyn.qlearning.learner import best_value, learn
from clusterdyn.qlearning.policy import Policy, untrained_policy
from clusterdyn.qlearning.schedules import QLearned, learned_schedule
from clusterdyn.qlearning.states import quantile_edges
from clusterdyn.schedules import Schedule
from clusterdyn.streams import seed_streams
from clusterdyn.sweeps import relax, rollout
from clusterdyn.training import mean_squared_error, schedule_generators


@dataclass(frozen=True)
class Episodes:
    """What a population's rollouts under a learned schedule brought.

    Attributes:
        total_reward: (S,), without discount, mean over trajectories.
        mse: (S,), of the predictions, standardised units.
    """

    total_reward: Tensor
    mse: Tensor


@torch.no_grad()
def run_episodes(
    cell: BoundCell,
    schedule: QLearned,
    states: Tensor,
    controls: Tensor,
    generators: Sequence[np.random.Generator],
    *,
    sweeps: int,
    relaxation: float,
    reward: str,
    config: QLearningConfig | None = None,
) -> Episodes:
    """Runs every trajectory once, and learns on the way if told how.

    Both rewards are a fall, before minus after an update, within a time step: of the norm
    ||f(h, z) - h||_2 over all nodes under the present drive z, or of the squared error that the
    read-out would have at the end of the time step. The rollout's last update is followed by
    nothing: its target is the reward alone.

    Args:
        cell: with the weights of S models.
        schedule: its tables are changed in place.
        states: (S, B, T + 1, p), standardised; but for the first, only the loss reads them.
        controls: (S, B, T, q), standardised.
        generators: one a model.
        sweeps: K, a time step.
        relaxation: eta in (0, 1].
        reward: "residual" or "loss".
        config: how to learn; nothing is learned without it.
    """
    check_reward(reward)
    hidden, state = cell.start(states.shape[1]), states[:, :, 0]
    labels = torch.tensor(schedule.partition.labels, device=states.device)
    turn = schedule.start(generators, states.shape[1])
    now = schedule.cluster_states(hidden)
    predictions, total = [], 0.0
    horizon, updates = controls.shape[2], sweeps * schedule.updates_per_sweep
    for time_step in range(horizon):
        drive = cell.drive(state, controls[:, :, time_step])
        target = states[:, :, time_step + 1]
        proposal = cell.proposal(hidden, drive)
        cost = _cost(reward, cell, hidden, proposal, target)
        for update in range(updates):
            cluster, turn = schedule.pick(now, turn)
            active_nodes = schedule.one_hot(cluster)[..., labels].unsqueeze(-1)
            hidden = relax(hidden, proposal, active_nodes, relaxation)
            proposal = cell.proposal(hidden, drive)
            after = schedule.cluster_states(hidden)
            cost, before = _cost(reward, cell, hidden, proposal, target), cost
            gain = before - cost
            total = total + gain
            if config is not None:
                last = (time_step, update) == (horizon - 1, updates - 1)
                following = None if last else after
                _learn(schedule, config, cluster, now, gain, following, turn.allowed)
            now = after
        state = cell.readout(hidden)
        predictions.append(state)
    mse = mean_squared_error(torch.stack(predictions, dim=2), states)
    return Episodes(total.mean(dim=1), mse)


def _learn(
    schedule: QLearned,
    config: QLearningConfig,
    cluster: Tensor,
    states: Tensor,
    gain: Tensor,
    following: Tensor | None,
    allowed: Tensor | None,
) -> None:
    """One step of Q-learning where the tables are; ``following`` is None at a rollout's end."""
    home = schedule.values.device
    target = gain.to(schedule.values)
    if following is not None:
        allowed = None if allowed is None else allowed.to(home)
        future = best_value(schedule.values, following.to(home), allowed)
        target = target + config.discount * future
    schedule.visits += learn(
        schedule.values, cluster.to(home), states.to(home), target, step_size=config.step_size
    )


def _cost(reward: str, cell: BoundCell, hidden: Tensor, proposal: Tensor, target: Tensor) -> Tensor:
    """(S, B): what an update should lower."""
    if reward == "loss":
        return (cell.readout(hidden) - target).square().mean(dim=-1)
    return torch.linalg.vector_norm((proposal - hidden).flatten(-2), dim=-1)


class _Observer(Schedule):
    """Notes the disagreement that another schedule meets."""

    def __init__(self, schedule: QLearned) -> None:
        super().__init__(schedule.partition)
        self.name, self.updates_per_sweep = schedule.name, schedule.updates_per_sweep
        self.schedule = schedule
        self.met: list[Tensor] = []

    def start(self, generators, batch):
        return self.schedule.start(generators, batch)

    def choose(self, view, state):
        self.met.append(self.schedule.disagreement(view.hidden))
        return self.schedule.choose(view, state)


def fitted_edges(
    cell: BoundCell,
    schedule: QLearned,
    train: tuple[Tensor, Tensor],
    generators: Sequence[np.random.Generator],
    *,
    sweeps: int,
    relaxation: float,
    config: QLearningConfig,
) -> np.ndarray:
    """Bin edges of each model, (S, m - 1): quantiles of what it meets under random choices.

    Random, so that the states do not depend on what is learned in them.

    Args:
        cell: with the weights of S models.
        schedule: says whether all clusters move once a sweep.
        train: states (S, N, T + 1, p) and controls (S, N, T, q).
        generators: one a model.
        sweeps: K, a time step.
        relaxation: eta in (0, 1].
        config: gives the number of trajectories.
    """
    states, controls = drawn_trajectories(train, generators, config.edge_trajectories)
    graph, policy = cell.cell.graph, schedule.policy
    observer = _Observer(learned_schedule(schedule.partition, graph, policy, exploration=1.0))
    sweeping = {"sweeps": sweeps, "relaxation": relaxation}
    with torch.no_grad():
        rollout(cell, states[:, :, 0], controls, observer, generators, **sweeping)
    met = torch.stack(observer.met, dim=1)  # (S, updates, B, n)
    return quantile_edges(met.cpu().numpy(), schedule.bins)


def learning_generators(seeds: Sequence[int]) -> list[np.random.Generator]:
    """One generator a model for the draws of its learning, from the model's seed alone."""
    return [np.random.default_rng(seed_streams(int(seed)).policy_learning) for seed in seeds]


def drawn_trajectories(
    split: tuple[Tensor, Tensor], generators: Sequence[np.random.Generator], count: int
) -> tuple[Tensor, Tensor]:
    """Some trajectories of each model's split, drawn without repeats.

    Args:
        split: states (S, N, T + 1, p) and controls (S, N, T, q).
        generators: one a model.
        count: how many; all, in another order, if there are no more.
    """
    states, controls = split
    total = states.shape[1]
    drawn = np.stack([g.permutation(total)[:count] for g in generators])  # (S, count)
    index = torch.as_tensor(drawn, device=states.device)
    row = torch.arange(len(states), device=states.device).unsqueeze(1)
    return states[row, index], controls[row, index]


@dataclass(frozen=True)
class Learned:
    """A policy and how it came about.

    Attributes:
        policy: after the last pass.
        passes: (P,), int64: learning passes before each point of the curves. Before the first
            pass all is tied, and the choice is random.
        total_reward: (P, S), of the greedy policy on the validation split.
        validation_mse: (P, S), of the same rollouts.
    """

    policy: Policy
    passes: np.ndarray
    total_reward: np.ndarray
    validation_mse: np.ndarray


def learn_policy(
    cell: MessagePassingCell,
    parameters: Tensor,
    partition: Partition,
    train: tuple[Tensor, Tensor],
    validation: tuple[Tensor, Tensor],
    seeds: Sequence[int],
    *,
    ordered: bool,
    reward: str,
    bins: int,
    sweeps: int,
    relaxation: float,
    config: QLearningConfig,
) -> Learned:
    """Learns a policy for each model of a population whose weights stay as they are.

    Args:
        cell: the cell.
        parameters: (S, P).
        partition: of the nodes.
        train, validation: states (S, N, T + 1, p) and controls (S, N, T, q) of each model.
        seeds: (S,), of the models.
        ordered: whether all clusters move once a sweep.
        reward: "residual" or "loss".
        bins: m.
        sweeps: K, a time step.
        relaxation: eta in (0, 1].
        config: the rest.
    """
    bound = cell.bind(parameters)
    blank = untrained_policy(
        cell.graph, partition, bins, np.array(seeds), ordered=ordered, reward=reward
    )
    schedule = learned_schedule(partition, cell.graph, blank)
    generators = learning_generators(seeds)
    sweeping = {"sweeps": sweeps, "relaxation": relaxation}
    edges = fitted_edges(bound, schedule, train, generators, config=config, **sweeping)
    schedule.edges.copy_(torch.as_tensor(edges))
    points = []
    for number in range(config.passes + 1):
        if number in config.curve:
            own = schedule_generators(seeds, training=False)
            greedy = schedule.at_test()
            points.append(run_episodes(bound, greedy, *validation, own, reward=reward, **sweeping))
        if number < config.passes:
            schedule.exploration = config.exploration(number, config.passes)
            learning_pass(
                bound, schedule, train, generators, reward=reward, config=config, **sweeping
            )
    return Learned(
        policy=schedule.learned(),
        passes=np.array(config.curve),
        total_reward=torch.stack([point.total_reward for point in points]).cpu().numpy(),
        validation_mse=torch.stack([point.mse for point in points]).cpu().numpy(),
    )


def learning_pass(
    cell: BoundCell,
    schedule: QLearned,
    train: tuple[Tensor, Tensor],
    generators: Sequence[np.random.Generator],
    *,
    sweeps: int,
    relaxation: float,
    reward: str,
    config: QLearningConfig,
) -> None:
    """One pass over some trajectories of the training split; arguments as of ``run_episodes``."""
    states, controls = drawn_trajectories(train, generators, config.pass_trajectories)
    run_episodes(
        cell,
        schedule,
        states,
        controls,
        generators,
        sweeps=sweeps,
        relaxation=relaxation,
        reward=reward,
        config=config,
    )
