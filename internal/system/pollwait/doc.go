// SPDX-License-Identifier: Apache-2.0

// Package pollwait has what networks wait with, at sockets or an epoll instance: deadlines that are moved
// while somebody waits, events that end a wait, and polls, with a limit or without waiting.
package pollwait
