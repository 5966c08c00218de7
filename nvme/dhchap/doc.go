// SPDX-License-Identifier: Apache-2.0

// Package dhchap is DH-HMAC-CHAP, by which a host and a controller of NVMe over Fabrics prove to each other that they
// have a secret (base 2.0, 8.13.5; TP 8006): secrets in their representation, the messages, and both sides of the
// protocol. [Host] and [Controller] take messages and return messages: they have no connection and no clock.
//
// A host begins with [Host.Negotiate], and passes each message of the controller to [Host.Handle]. A controller passes
// each message of the host to [Controller.Handle]. The messages travel in the commands Authentication Send and
// Authentication Receive.
//
// The exponents of the Diffie-Hellman exchange are used once, and math/big computes with them in a time that depends on
// them.
package dhchap
