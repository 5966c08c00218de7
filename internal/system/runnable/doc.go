// SPDX-License-Identifier: Apache-2.0

// Package runnable tells whether far more threads of the machine want to run than it has processors. A program
// that polls then keeps others from running, and its peer may be among them.
package runnable
