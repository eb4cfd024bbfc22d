"""The operator as a process on a bare control plane: the base of the sweep, the walk and the benchmark.

The code here uses only external interfaces, as an administrator, a kubelet or the operator's pod would. This package
contains no tests.
"""
