"""What users hold: an application, its queries, their autoscalers and rescales."""
