"""The experiments beyond the published setting, each part computed once and kept."""

from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from functools import cached_property

from clusterdyn.artifacts import ArtifactStore, Stage
from clusterdyn.config import StudyConfig
from clusterdyn.execution import workers_of
from clusterdyn.limits.claims import LimitsClaims, limits_claims
from clusterdyn.limits.config import LimitsConfig
from clusterdyn.limits.study import LimitsResult, run_limits
from clusterdyn.strict.claims import Claim
from clusterdyn.strict.config import StrictConfig


@dataclass(frozen=True)
class LimitsStudy:
    """All results of the experiments beyond the published setting.

    Attributes:
        config: the study's settings.
        strict: settings of its strict protocol.
        limits: where schedules are compared once more.
        store: where artifacts are kept.
        executor: trains populations side by side; a process for each core by default.
    """

    config: StudyConfig
    strict: StrictConfig
    limits: LimitsConfig
    store: ArtifactStore
    executor: Executor | None = None

    @property
    def stage(self) -> Stage:
        """What the result depends on."""
        return Stage(
            name="limits",
            module="clusterdyn.limits.study",
            config={
                "strict": asdict(self.strict),
                "limits": asdict(self.limits),
                **self.config.dependencies(),
            },
        )

    @cached_property
    def result(self) -> LimitsResult:
        """All that was measured."""

        def run() -> LimitsResult:
            with workers_of(self.executor) as pool:
                return run_limits(self.config, self.strict, self.limits, self.store, executor=pool)

        return self.store.load_or_compute(self.stage, LimitsResult, run)

    @property
    def claims_stage(self) -> Stage:
        """What the claims depend on."""
        return Stage(
            "limits-claims", "clusterdyn.limits.claims", self.stage.config, (self.stage.key,)
        )

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """Every comparison, family by family."""
        result = self.result  # first, so that lines of progress come in order
        return self.store.load_or_compute(
            self.claims_stage, LimitsClaims, lambda: limits_claims(result)
        ).claims

    def family(self, name: str) -> tuple[Claim, ...]:
        """The claims of one family, a key of ``claims.FAMILIES``."""
        return tuple(claim for claim in self.claims if claim.family == name)
