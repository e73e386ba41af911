"""The demo: real flights as a stream whose shards move, and the proof that the answer is Spark's.

``python -m laneshift_demo flights`` replays files, ``... kafka`` a topic of a Kafka broker.
"""
