// SPDX-License-Identifier: Apache-2.0

// Package pollwait has what networks with an epoll instance, or something like it, wait with: deadlines
// that are moved while somebody waits, and polls that do not wait.
package pollwait
