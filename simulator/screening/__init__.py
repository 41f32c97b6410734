"""Static times of launches, from what their tiles or their code moves and computes: a rank before any prediction."""
