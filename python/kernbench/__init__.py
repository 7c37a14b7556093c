"""The names of kernbench, the ancestor of Phalanx, over :mod:`phalanx`: programs that were written for it run unchanged.

Ranks are greenlets. A rank that waits hands its wait to the main program, which alone makes time pass (``_drain_pending``); see
:mod:`kernbench.runtime_api.context`. Memory, machine, clock and the built-in collectives are those of Phalanx. Kernels of
kernbench compute with numpy arrays, at the costs of the machine's engines, memories and wires, each of which serves one after another
(:mod:`kernbench.sim_engine.units`). New programs use :mod:`phalanx`, whose kernels also meet at the wires between cubes.
"""
