"""The egress proxy of a workspace: commands reach the hosts that the spec names through it, and nothing else."""
