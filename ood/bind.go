package ood

// NetworkBound is implemented by scorers that run the network. Fit binds them
// to Training.Network; one that Restore returned has no network, and its Score
// returns a *NeedError until it is bound.
type NetworkBound interface {
	Scorer
	// Bind returns the scorer with the network n, which is the one that the
	// method was fitted with; the receiver is not changed.
	Bind(n Network) Scorer
}
