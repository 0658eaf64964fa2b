// Package serve answers requests for predictions over the network: of images, texts
// or tensors it says what attach predict says of rows of a file, with p-values,
// intervals and flags, in the Open Inference Protocol, version 2, over REST and gRPC.
//
// A program mounts a Server beside its own routes, and registers it with its own gRPC
// server. Requests that come at once are run together.
package serve
