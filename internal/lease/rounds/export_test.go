package rounds

// Charge is a round that callers need not tell from others.
const Charge = charge
