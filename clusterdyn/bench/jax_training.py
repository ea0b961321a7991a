"""The same training in JAX: ``vmap`` over the models, ``scan`` over the steps, ``jit`` over all.

Each model is clipped and stepped by itself. The messages are one dense product with the
recurrent matrix, which XLA runs several times as fast on a CPU as a roll and a product with the
shared weights. JAX is an extra, ``bench``, and imported only here.
"""

import time
from typing import TYPE_CHECKING

import numpy as np

from clusterdyn.arms import message_passing_cell
from clusterdyn.bench.contenders import Run, Workload
from clusterdyn.datasets import minibatch_order
from clusterdyn.optimiser import Adam
from clusterdyn.streams import seed_streams

if TYPE_CHECKING:
    from jax import Array


class JaxTraining:
    """A workload in JAX, full sweep, on as many threads as JAX takes.

    Args:
        workload: what is trained.
    """

    def __init__(self, workload: Workload) -> None:
        import jax

        self.workload, self.config = workload, workload.config
        jax.config.update("jax_enable_x64", self.config.dtype == "float64")
        self.cell = message_passing_cell(self.config)
        self._arguments = [jax.numpy.asarray(values) for values in self._inputs()]
        jax.jit(lambda x: x + 1)(self._arguments[0]).block_until_ready()  # wakes the compiler

    def _inputs(self) -> tuple[np.ndarray, ...]:
        """What ``_train`` takes."""
        config, datasets = self.config, self.workload.datasets
        roots = {seed: seed_streams(seed) for seed in datasets}
        rates = len(config.learning_rates)
        initial = [self.cell.initial_parameters(root.weights) for root in roots.values()]
        order = [
            minibatch_order(
                root.minibatch_stream(config.minibatch_stream),
                config.train_trajectories,
                config.batch_size,
                config.epochs,
            ).reshape(-1, config.batch_size)
            for root in roots.values()
        ]
        values = (
            np.repeat(initial, rates, axis=0),  # (S, P)
            np.stack([dataset.train.states for dataset in datasets.values()]),
            np.stack([dataset.train.controls for dataset in datasets.values()]),
            np.tile(config.learning_rates, len(datasets)),  # (S,)
        )
        return (
            *(np.asarray(part, dtype=config.dtype) for part in values),
            np.stack(order, axis=1),  # (steps, seeds, B)
            np.repeat(np.arange(len(datasets)), rates),  # (S,), the dataset of each model
        )

    def prepare(self) -> float:
        """Compiles; returns the seconds that it took, tracing included."""
        import jax

        started = time.perf_counter()
        self._compiled = jax.jit(self._train).lower(*self._arguments).compile()
        return time.perf_counter() - started

    def run(self) -> Run:
        """Trains all models."""
        started = time.perf_counter()
        losses = self._compiled(*self._arguments).block_until_ready()
        seconds = time.perf_counter() - started
        losses, per_epoch = np.asarray(losses), self.workload.steps_per_epoch  # (steps, S)
        return Run(seconds, losses[:per_epoch].mean(axis=0), losses[-per_epoch:].mean(axis=0))

    def _train(
        self,
        parameters: "Array",
        states: "Array",
        controls: "Array",
        rates: "Array",
        order: "Array",
        dataset: "Array",
    ) -> "Array":
        """The loss of every step and model, (steps, S)."""
        import jax
        from jax import numpy as jnp

        loss_and_gradient = jax.vmap(jax.value_and_grad(self._loss))
        row = dataset[:, None]

        def step(carry: tuple, batches: "Array") -> tuple[tuple, "Array"]:
            parameters, first, second, number = carry
            batch = batches[dataset]  # (S, B)
            loss, gradient = loss_and_gradient(parameters, states[row, batch], controls[row, batch])
            norm = jnp.linalg.norm(gradient, axis=1, keepdims=True)
            gradient *= jnp.minimum(1, self.config.clip_norm / (norm + 1e-6))
            number += 1
            first = Adam.beta1 * first + (1 - Adam.beta1) * gradient
            second = Adam.beta2 * second + (1 - Adam.beta2) * gradient**2
            mean = first / (1 - Adam.beta1**number)
            root = jnp.sqrt(second / (1 - Adam.beta2**number))
            parameters -= rates[:, None] * mean / (root + Adam.epsilon)
            return (parameters, first, second, number), loss

        zeros = jnp.zeros_like(parameters)
        start = (parameters, zeros, zeros, jnp.zeros((), parameters.dtype))
        return jax.lax.scan(step, start, order)[1]

    def _loss(self, parameters: "Array", states: "Array", controls: "Array") -> "Array":
        """One model's MSE from parameters (P,), states (B, T + 1, p) and controls (B, T, q)."""
        import jax
        from jax import numpy as jnp

        config, width = self.config, self.cell.hidden_size
        weights, start = {}, 0
        for name, shape in self.cell.parameter_shapes.items():
            size = int(np.prod(shape))
            weights[name] = parameters[start : start + size].reshape(shape)
            start += size
        # Entry ((j, b), (i, a)): how channel b of node j moves channel a of node i.
        heard = np.eye(config.nodes, dtype=config.dtype)
        heard = np.stack([heard, np.roll(heard, -1, axis=1), np.roll(heard, 1, axis=1)])
        recurrent = jnp.einsum("rij,rab->jbia", heard, weights["messages"]).reshape(width, width)

        def time_step(carry: tuple, control: "Array") -> tuple[tuple, "Array"]:
            hidden, state = carry  # (B, n d) and (B, p)
            inputs = jnp.concatenate([state, control], axis=-1)
            drive = inputs @ weights["drive"].T + weights["drive_bias"]
            for _ in range(config.sweeps):
                proposal = jnp.tanh(hidden @ recurrent + drive)
                hidden = hidden + config.relaxation * (proposal - hidden)
            state = hidden @ weights["readout"].T + weights["readout_bias"]
            return (hidden, state), state

        hidden = jnp.zeros((len(states), width), parameters.dtype)
        _, predictions = jax.lax.scan(
            time_step, (hidden, states[:, 0]), controls.swapaxes(0, 1)
        )  # (T, B, p)
        return jnp.mean((predictions.swapaxes(0, 1) - states[:, 1:]) ** 2)
