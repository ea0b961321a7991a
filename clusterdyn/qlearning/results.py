"""The study of learned schedules, each part computed once and kept as an artifact."""

from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from functools import cached_property

from clusterdyn.artifacts import ArtifactStore, Stage
from clusterdyn.config import StudyConfig
from clusterdyn.execution import workers_of
from clusterdyn.qlearning.claims import LearnedClaims, learned_claims
from clusterdyn.qlearning.config import QLearningConfig
from clusterdyn.qlearning.study import LearnedResult, run_learned
from clusterdyn.strict.claims import Claim
from clusterdyn.strict.config import StrictConfig


@dataclass(frozen=True)
class LearnedStudy:
    """All results of learned schedules.

    Attributes:
        config: the study's settings.
        strict: settings of its strict protocol.
        learning: how tables are learned.
        store: where artifacts are kept.
        executor: carries out runs side by side; a process for each core by default.
    """

    config: StudyConfig
    strict: StrictConfig
    learning: QLearningConfig
    store: ArtifactStore
    executor: Executor | None = None

    @property
    def stage(self) -> Stage:
        """What the result depends on."""
        return Stage(
            name="learned",
            module="clusterdyn.qlearning.study",
            config={
                "strict": asdict(self.strict),
                "learning": asdict(self.learning),
                **self.config.dependencies(),
            },
        )

    @cached_property
    def result(self) -> LearnedResult:
        """All that was measured."""

        def run() -> LearnedResult:
            with workers_of(self.executor) as pool:
                return run_learned(
                    self.config, self.strict, self.learning, self.store, executor=pool
                )

        return self.store.load_or_compute(self.stage, LearnedResult, run)

    @property
    def claims_stage(self) -> Stage:
        """What the claims depend on."""
        return Stage(
            "learned-claims", "clusterdyn.qlearning.claims", self.stage.config, (self.stage.key,)
        )

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """Every comparison, family by family."""

        result = self.result  # first, so that lines of progress come in order

        def compare() -> LearnedClaims:
            return LearnedClaims(learned_claims(result, self.config))

        return self.store.load_or_compute(self.claims_stage, LearnedClaims, compare).claims

    def family(self, name: str) -> tuple[Claim, ...]:
        """The claims of one family, a key of ``claims.FAMILIES``."""
        return tuple(claim for claim in self.claims if claim.family == name)
