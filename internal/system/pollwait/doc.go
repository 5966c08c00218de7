// SPDX-License-Identifier: Apache-2.0

// Package pollwait has the parts of networks' waits, at sockets or an epoll instance: deadlines that are
// moved during a wait, events that end a wait, and polls, with a limit or without waiting.
package pollwait
