// SPDX-License-Identifier: Apache-2.0

// Package dash serves a page that shows the processes with open devices, live: what `ramjet dash` is.
//
// The page, its script and its styles are embedded, and need nothing from elsewhere. The script asks for the
// state once a second while its tab is to be seen. Only then are processes read, once however many pages ask.
//
// # Who may look
//
// Other users of a host can connect to its loopback addresses, and pages of other sites can make a browser do so. So
// whoever asks for anything but the bare page has to give the key that is part of the printed URL. It stands behind
// the number sign, which browsers send to nobody; the script sends it in a header. Requests for other hosts than the
// server's are refused, which keeps pages away whose name was made to point here (DNS rebinding). Nothing but
// POST changes anything, and all that it changes is that a process keeps the last packets of a queue pair.
//
// # Bounds
//
// The server has so many connections, histories and queue pairs in an answer, and follows the packets of so many queue
// pairs at a time, each for some seconds after the last request.
package dash
