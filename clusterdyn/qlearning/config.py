"""Settings of learning, beside those of the study."""

from dataclasses import dataclass

from clusterdyn.settings import check_distinct, check_positive, check_types

REWARDS = ("residual", "loss")


def check_reward(reward: str) -> None:
    """Raises ValueError for an unknown reward."""
    if reward not in REWARDS:
        raise ValueError(f"reward must be one of {', '.join(REWARDS)}; got {reward!r}")


@dataclass(frozen=True)
class QLearningConfig:
    """How tables are learned; the defaults are ``full``.

    Trajectories that run side by side are at the same sweep, so that what many of them learn at
    once overwrites what was learned at earlier sweeps. Small passes stay closer to the source's
    one trajectory after another.

    Attributes:
        step_size: alpha in (0, 1].
        discount: gamma in [0, 1).
        first_exploration, last_exploration: epsilon at the start and at the end of learning; it
            falls evenly between them.
        pass_trajectories: that run side by side in a learning pass, drawn from each model's
            training split, afresh in each pass and without repeats in it; all if there are fewer.
        passes: learning passes on a frozen model.
        scored_passes: the learning curve has a point after so many passes each, and at the end.
        epoch_passes: learning passes after each epoch, where models are trained as well.
        edge_trajectories: of the training split, that bin edges are fitted to; all if there are
            fewer.
        ordered_rewards: that ``q_ordered`` is trained beside its models with. These arms take C
            times the updates of the others, and most of the study's time.
        ordered_test_seeds: how many of the strict protocol's test seeds, from the first, they are
            tested on. Their learning rate is selected on as many seeds as any arm's.
    """

    step_size: float = 0.1
    discount: float = 0.9
    first_exploration: float = 0.6
    last_exploration: float = 0.05
    pass_trajectories: int = 20
    passes: int = 40
    scored_passes: int = 4
    epoch_passes: int = 4
    edge_trajectories: int = 20
    ordered_rewards: tuple[str, ...] = ("residual", "loss")
    ordered_test_seeds: int = 12

    def __post_init__(self) -> None:
        check_types(self)
        check_positive(
            self,
            (
                "step_size", "pass_trajectories", "passes", "scored_passes", "epoch_passes",
                "edge_trajectories",
            ),
        )  # fmt: skip
        if self.ordered_test_seeds < 2:
            raise ValueError(
                "ordered_test_seeds must be at least 2 to form pairs; got "
                f"{self.ordered_test_seeds}"
            )
        for reward in self.ordered_rewards:
            check_reward(reward)
        check_distinct("ordered_rewards", self.ordered_rewards)
        if self.step_size > 1:
            raise ValueError(f"step_size must lie in (0, 1]; got {self.step_size:g}")
        if not 0 <= self.discount < 1:
            raise ValueError(f"discount must lie in [0, 1); got {self.discount:g}")
        for name in ("first_exploration", "last_exploration"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie in [0, 1]; got {getattr(self, name):g}")

    def exploration(self, number: int, count: int) -> float:
        """Epsilon in a pass, or in an epoch.

        Args:
            number: of the pass, from 0.
            count: how many there are.
        """
        share = number / (count - 1) if count > 1 else 1.0
        return self.first_exploration + share * (self.last_exploration - self.first_exploration)

    @property
    def curve(self) -> tuple[int, ...]:
        """Passes after which the greedy policy is scored, from 0."""
        return tuple(sorted({*range(0, self.passes, self.scored_passes), self.passes}))
