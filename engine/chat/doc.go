// Package chat renders conversations with the template that a checkpoint carries and encodes them so
// that text of a message never becomes a control token: a user who writes the marker that ends a turn
// has written text.
package chat
