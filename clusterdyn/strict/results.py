"""The strict study, each part computed once and kept as an artifact."""

from concurrent.futures import Executor
from dataclasses import asdict, dataclass
from functools import cached_property

from clusterdyn.artifacts import ArtifactStore, Stage
from clusterdyn.config import StudyConfig
from clusterdyn.execution import workers_of
from clusterdyn.strict.claims import Claim
from clusterdyn.strict.config import StrictConfig
from clusterdyn.strict.inference import StrictInference, infer_strict
from clusterdyn.strict.study import StrictResult, run_strict


@dataclass(frozen=True)
class StrictStudy:
    """All results of the strict protocol.

    Attributes:
        config: the study's settings.
        strict: settings of the protocol.
        published_rate: the learning rate that the reference protocol chose for the histogram.
        store: where artifacts are kept.
        executor: trains populations side by side; a process for each core by default.
    """

    config: StudyConfig
    strict: StrictConfig
    published_rate: float
    store: ArtifactStore
    executor: Executor | None = None

    @property
    def stage(self) -> Stage:
        """What the result depends on."""
        return Stage(
            name="strict",
            module="clusterdyn.strict.study",
            config={
                "strict": asdict(self.strict),
                "published_rate": self.published_rate,
                **self.config.dependencies(),
            },
        )

    @cached_property
    def result(self) -> StrictResult:
        """All that was measured."""

        def run() -> StrictResult:
            with workers_of(self.executor) as pool:
                return run_strict(
                    self.config, self.strict, self.published_rate, self.store, executor=pool
                )

        return self.store.load_or_compute(self.stage, StrictResult, run)

    @property
    def inference_stage(self) -> Stage:
        """What the claims depend on."""
        return Stage("claims", "clusterdyn.strict.inference", self.stage.config, (self.stage.key,))

    @property
    def claims(self) -> tuple[Claim, ...]:
        """Every comparison, family by family."""
        return self.inference.claims

    @cached_property
    def inference(self) -> StrictInference:
        """Every comparison, and the power of the protocol."""
        result = self.result  # first, so that lines of progress come in order
        return self.store.load_or_compute(
            self.inference_stage,
            StrictInference,
            lambda: infer_strict(result, self.config, self.strict, self.published_rate),
        )
