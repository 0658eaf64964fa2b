// Package modelrows opens rows as a network takes them, and the rows that a bundle is used
// on, with what is known of each: those that its network makes of inputs, or features that
// were made before. Nothing in it prints, or knows of flags.
package modelrows
