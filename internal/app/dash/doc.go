// SPDX-License-Identifier: Apache-2.0

// Package dash serves the page of `ramjet dash`, which shows the processes with open devices, live.
//
// The page, its script and its styles are embedded, and need nothing from elsewhere. The script asks for the
// state once a second while its tab is to be seen. Only then are processes read, once however many pages ask.
//
// # Access
//
// Other users of a host can connect to its loopback addresses, and pages of other sites can make a browser do so. So
// every request for more than the bare page has to have the key that is part of the printed URL. The key follows the
// number sign, so browsers do not send it; the script sends it in a header. Requests that name another host than the
// server's are refused, which stops pages whose name was made to point here (DNS rebinding). Only POST changes
// anything, and all that it changes is that a process keeps the last packets of a queue pair.
//
// # Bounds
//
// There are limits on connections, on histories, on the queue pairs in an answer, and on the queue pairs whose packets
// are watched at a time, each for some seconds after the last request.
package dash
