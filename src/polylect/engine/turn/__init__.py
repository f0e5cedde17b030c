"""One turn, from a prompt to `TurnEnded`: the loop, the model's reply, its calls, what is asked of the person."""
