"""A PyTorch index and a default index on 127.0.0.1, with real names and invented contents."""
