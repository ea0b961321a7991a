"""A policy that is learned while its models are trained: weights and tables in turn."""

from collections.abc import Sequence

import torch

from clusterdyn.qlearning.config import QLearningConfig
from clusterdyn.qlearning.learning import fitted_edges, learning_generators, learning_pass
from clusterdyn.qlearning.schedules import QLearned
from clusterdyn.schedules import Schedule


class LearnsBeside(Schedule):
    """Epsilon-greedy while the weights are trained; after each epoch, passes over the tables.

    Before these passes the bin edges are fitted anew to the models as they are: a state says in
    which quantiles of its model's disagreement a cluster's nodes lie, and keeps that meaning while
    the scale of the hidden state grows. At test the choice is greedy.

    Args:
        learned: follows the tables, which are changed in place.
        seeds: (S,), of the models that are trained.
        reward: "residual" or "loss".
        epochs: of training; epsilon falls over them.
        sweeps: K, a time step.
        relaxation: eta in (0, 1].
        config: how to learn.
    """

    def __init__(
        self,
        learned: QLearned,
        seeds: Sequence[int],
        *,
        reward: str,
        epochs: int,
        sweeps: int,
        relaxation: float,
        config: QLearningConfig,
    ) -> None:
        super().__init__(learned.partition)
        self.name, self.updates_per_sweep = learned.name, learned.updates_per_sweep
        self.learned, self.reward, self.epochs, self.config = learned, reward, epochs, config
        self.sweeping = {"sweeps": sweeps, "relaxation": relaxation}
        self.generators = learning_generators(seeds)
        learned.exploration = config.exploration(0, epochs)

    def start(self, generators, batch):
        return self.learned.start(generators, batch)

    def choose(self, view, state):
        return self.learned.choose(view, state)

    def after_epoch(self, epoch, cell, parameters, states, controls):
        bound, train = cell.bind(parameters), (states, controls)
        edges = fitted_edges(
            bound, self.learned, train, self.generators, config=self.config, **self.sweeping
        )
        self.learned.edges.copy_(torch.as_tensor(edges))
        for _ in range(self.config.epoch_passes):
            learning_pass(
                bound,
                self.learned,
                train,
                self.generators,
                reward=self.reward,
                config=self.config,
                **self.sweeping,
            )
        if epoch + 1 < self.epochs:
            self.learned.exploration = self.config.exploration(epoch + 1, self.epochs)

    def at_test(self):
        return self.learned.at_test()
