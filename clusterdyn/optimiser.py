"""Adam on a flat population of models, each with a learning rate of its own."""

import torch
from torch import Tensor


class Adam:
    """Adam with a learning rate a model and a norm clip a model, on a flat population (S, P).

    Source: Kingma and Ba 2015, algorithm 1, with the defaults of ``torch.optim.Adam``.
    """

    beta1, beta2, epsilon = 0.9, 0.999, 1e-8

    def __init__(self, parameters: Tensor, learning_rates: Tensor, clip_norm: float) -> None:
        self.learning_rates = learning_rates.unsqueeze(1)  # (S, 1)
        self.clip_norm = clip_norm
        self.first_moment = torch.zeros_like(parameters)
        self.second_moment = torch.zeros_like(parameters)
        self.steps = 0

    def step(self, parameters: Tensor, gradient: Tensor, alive: Tensor) -> Tensor:
        """Moves the rows that are alive and stay finite, in place.

        Args:
            parameters: (S, P), changed in place.
            gradient: (S, P).
            alive: bool, (S,).

        Returns:
            Which rows moved, bool, (S,): those whose gradient's norm was finite as well.
        """
        self.steps += 1
        norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
        gradient = gradient * (self.clip_norm / (norm + 1e-6)).clamp(max=1.0)
        self.first_moment.lerp_(gradient, 1 - self.beta1)
        self.second_moment.mul_(self.beta2).addcmul_(gradient, gradient, value=1 - self.beta2)
        rates = self.learning_rates / (1 - self.beta1**self.steps)
        root = self.second_moment.sqrt().div_((1 - self.beta2**self.steps) ** 0.5)
        moved = torch.addcdiv(
            parameters, rates * self.first_moment, root.add_(self.epsilon), value=-1
        )
        alive = alive & norm.isfinite().squeeze(1) & moved.isfinite().all(dim=1)
        torch.where(alive.unsqueeze(1), moved, parameters, out=parameters)
        return alive
