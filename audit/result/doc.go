// Package result holds the results of an audit: how many inputs do not belong, with
// guarantees, and where they are. It has no code that runs a model, so a program that only
// reads audit.json needs no C compiler.
package result
