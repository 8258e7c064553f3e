"""Explaining a run: why it is late, stuck, waiting or dead, in one sentence with its evidence.

Pure: facts that were read together in, one explanation out. What is being waited for now comes
first; of a run that is over, the longest part of the way from its due time on is explained.
"""
