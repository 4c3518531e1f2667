"""Engines that only research uses, each tested against its definition.

`topkw_dense*` has the top k of a window for many ideal points; `bulk` top-k covering worked out at once, `relations`
one filter against many, `chains` what wrong answers of group cover cost along a chain of brokers; `columnar` makes an
index from columns of ranges; `exhaustive` tries every placement, `greedy_eviction` turns subscribers out to make room.
"""
