"""The operator as a process on a bare control plane: what the sweep, the walk and the benchmark stand on.

Everything here works from outside, as an administrator, a kubelet or the operator's pod would. No test lies here.
"""
