"""What a policy is, is shown, and answers: measured loads in, a plan out."""
