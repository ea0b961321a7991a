"""The plain way: one ring model at a time, as an ordinary ``torch.nn.Module``.

Slow and obvious. It is what the population trainer is tested against and timed against.
"""

import numpy as np
import torch
from torch import Tensor, nn

from clusterdyn.datasets import Dataset, minibatch_order
from clusterdyn.model import MessagePassingCell
from clusterdyn.schedules import Schedule, SweepView
from clusterdyn.streams import seed_streams
from clusterdyn.sweeps import active_clusters
from clusterdyn.training import TrainingConfig, schedule_generators


class PlainRingModel(nn.Module):
    """The cell of ``MessagePassingCell`` on a ring, for one model.

    Args:
        cell: gives the sizes.
        parameters: (P,), flat, as the cell orders them.
        config: gives sweeps, relaxation and precision.
    """

    def __init__(
        self, cell: MessagePassingCell, parameters: np.ndarray, config: TrainingConfig
    ) -> None:
        super().__init__()
        self.nodes, self.channels = cell.graph.nodes, cell.channels
        self.config = config
        self.drive = nn.Linear(cell.state_size + cell.control_size, cell.hidden_size)
        self.messages = nn.Linear(3 * cell.channels, cell.channels, bias=False)
        self.readout = nn.Linear(cell.hidden_size, cell.state_size)
        self.to(device=config.device, dtype=getattr(torch, config.dtype))
        weights = cell.unflatten(config.tensor(parameters)[None])
        with torch.no_grad():
            self.drive.weight.copy_(weights["drive"][0])
            self.drive.bias.copy_(weights["drive_bias"][0])
            self.messages.weight.copy_(torch.cat(list(weights["messages"][0]), dim=1))
            self.readout.weight.copy_(weights["readout"][0])
            self.readout.bias.copy_(weights["readout_bias"][0])

    def flat(self) -> Tensor:
        """(P,): the parameters in the cell's order."""
        messages = torch.stack(self.messages.weight.split(self.channels, dim=1))
        parts = (self.drive.weight, self.drive.bias, messages)
        parts += (self.readout.weight, self.readout.bias)
        return torch.cat([part.reshape(-1) for part in parts]).detach()

    def forward(
        self,
        first_state: Tensor,
        controls: Tensor,
        schedule: Schedule,
        generators: list[np.random.Generator],
    ) -> Tensor:
        """Predictions (B, T, p) from x_0 (B, p) and controls (B, T, q), standardised."""
        if schedule.needs_answer:
            raise ValueError(
                f"schedule {schedule.name!r} needs the answer, which is not given here"
            )
        batch = first_state.shape[0]
        labels = torch.tensor(schedule.partition.labels, device=first_state.device)
        choice_state = schedule.start(generators, batch)
        hidden = first_state.new_zeros(batch, self.nodes, self.channels)
        state, predictions = first_state, []
        for t in range(controls.shape[1]):
            drive = self.drive(torch.cat([state, controls[:, t]], dim=-1)).view_as(hidden)
            for sweep in range(self.config.sweeps):
                for update in range(schedule.updates_per_sweep):
                    left, right = hidden.roll(1, dims=1), hidden.roll(-1, dims=1)
                    heard = torch.cat([hidden, left, right], dim=-1)
                    proposal = torch.tanh(self.messages(heard) + drive)
                    with torch.no_grad():
                        view = SweepView(hidden[None], proposal[None], t, sweep, update)
                        choice, choice_state = schedule.choose(view, choice_state)
                        active = active_clusters(schedule, choice)
                        mask = active[..., labels].unsqueeze(-1).to(hidden)
                        mask = mask.reshape(mask.shape[-3:])  # drops the population of one
                    hidden = hidden + self.config.relaxation * mask * (proposal - hidden)
            state = self.readout(hidden.flatten(1))
            predictions.append(state)
        return torch.stack(predictions, dim=1)


def train_plain(
    cell: MessagePassingCell,
    schedule: Schedule,
    dataset: Dataset,
    seed: int,
    learning_rate: float,
    config: TrainingConfig,
) -> tuple[Tensor, list[float]]:
    """Trains one model with ``torch.optim.Adam`` and ``clip_grad_norm_``.

    Returns:
        The flat parameters (P,), and the loss of every optimiser step.
    """
    streams = seed_streams(seed)
    model = PlainRingModel(cell, cell.initial_parameters(streams.weights), config)
    optimiser = torch.optim.Adam(model.parameters(), lr=learning_rate)
    generators = schedule_generators([seed], training=True)
    states = config.tensor(dataset.train.states)
    controls = config.tensor(dataset.train.controls)
    order = minibatch_order(streams.minibatches, len(states), config.batch_size, config.epochs)
    losses = []
    for indices in order.reshape(-1, config.batch_size):
        batch = torch.as_tensor(indices, device=config.device)
        predictions = model(states[batch, 0], controls[batch], schedule, generators)
        loss = (predictions - states[batch, 1:]).square().mean()
        optimiser.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), config.clip_norm)
        optimiser.step()
        losses.append(loss.item())
    return model.flat(), losses
