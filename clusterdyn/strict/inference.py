"""All that is inferred from the strict study's scores: claims, and the power of the protocol."""

from dataclasses import dataclass

import numpy as np

from clusterdyn.config import StudyConfig
from clusterdyn.strict.arms import BASELINE, Arm
from clusterdyn.strict.claims import Claim, all_claims
from clusterdyn.strict.config import StrictConfig
from clusterdyn.strict.power import PowerSimulation, simulate_power
from clusterdyn.strict.study import NULL, StrictResult

POWER_STUDIES = 400  # simulated at each improvement


@dataclass(frozen=True)
class StrictInference:
    """What the strict study's scores say.

    Attributes:
        claims: every comparison, family by family.
        power: of a study with as many seeds, simulated from the null arms' scores.
    """

    claims: tuple[Claim, ...]
    power: PowerSimulation

    def family(self, name: str) -> tuple[Claim, ...]:
        """The claims of one family."""
        return tuple(claim for claim in self.claims if claim.family == name)


def infer_strict(
    result: StrictResult, config: StudyConfig, strict: StrictConfig, published_rate: float
) -> StrictInference:
    """Compares and simulates; arguments as of ``all_claims``."""
    twins = [result.of(arm).test_mse for arm in (Arm(BASELINE), NULL)]
    power = simulate_power(
        *twins,
        seeds=len(result.test_seeds),
        studies=POWER_STUDIES,
        rng=np.random.default_rng(0),
    )
    return StrictInference(all_claims(result, config, strict, published_rate), power)
