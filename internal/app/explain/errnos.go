// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"strconv"
	"strings"
)

// errno is an error of Linux: logs come from there, wherever this program runs.
type errno struct {
	number int
	name   string
	text   string // of strerror, in the C locale
}

var errnos = []errno{
	{1, "EPERM", "Operation not permitted"}, {2, "ENOENT", "No such file or directory"},
	{4, "EINTR", "Interrupted system call"},
	{5, "EIO", "Input/output error"}, {11, "EAGAIN", "Resource temporarily unavailable"},
	{12, "ENOMEM", "Cannot allocate memory"},
	{13, "EACCES", "Permission denied"}, {14, "EFAULT", "Bad address"}, {16, "EBUSY", "Device or resource busy"},
	{19, "ENODEV", "No such device"}, {22, "EINVAL", "Invalid argument"}, {24, "EMFILE", "Too many open files"},
	{28, "ENOSPC", "No space left on device"}, {32, "EPIPE", "Broken pipe"},
	{34, "ERANGE", "Numerical result out of range"},
	{38, "ENOSYS", "Function not implemented"}, {61, "ENODATA", "No data available"}, {71, "EPROTO", "Protocol error"},
	{92, "ENOPROTOOPT", "Protocol not available"}, {93, "EPROTONOSUPPORT", "Protocol not supported"},
	{95, "EOPNOTSUPP", "Operation not supported"}, {97, "EAFNOSUPPORT", "Address family not supported by protocol"},
	{98, "EADDRINUSE", "Address already in use"}, {99, "EADDRNOTAVAIL", "Cannot assign requested address"},
	{100, "ENETDOWN", "Network is down"}, {101, "ENETUNREACH", "Network is unreachable"},
	{103, "ECONNABORTED", "Software caused connection abort"},
	{104, "ECONNRESET", "Connection reset by peer"}, {105, "ENOBUFS", "No buffer space available"},
	{106, "EISCONN", "Transport endpoint is already connected"},
	{107, "ENOTCONN", "Transport endpoint is not connected"}, {110, "ETIMEDOUT", "Connection timed out"},
	{111, "ECONNREFUSED", "Connection refused"},
	{112, "EHOSTDOWN", "Host is down"}, {113, "EHOSTUNREACH", "No route to host"},
	{121, "EREMOTEIO", "Remote I/O error"},
	{125, "ECANCELED", "Operation canceled"},
}

func errnoNamed(name string) *errno {
	for i := range errnos {
		if errnos[i].name == name {
			return &errnos[i]
		}
	}
	return &errno{name: name, text: "an error without a text here"}
}

func errnoNumbered(n int) *errno {
	for i := range errnos {
		if errnos[i].number == n {
			return &errnos[i]
		}
	}
	return nil
}

// errnoNumber finds a number that is an errno by the words before it, or by its sign.
var errnoNumber = lazily(`(?i)\b(?:errno|error|err|ret|rc|returned|failed|failed with(?: error)?|status)[ =:,(\[]*(-?[0-9]{1,3})\b|[:=\[(] ?(-[0-9]{1,3})\b|\[([0-9]{1,3})\]\s*$`)

// errnoIn returns the errno that a line has as a text, a name or a number, or nil.
func errnoIn(line string) *errno {
	lower := strings.ToLower(line)
	for i := range errnos {
		if hasWords(lower, strings.ToLower(errnos[i].text)) || hasWords(line, errnos[i].name) {
			return &errnos[i]
		}
	}
	for _, m := range errnoNumber().FindAllStringSubmatch(line, -1) {
		for _, text := range m[1:] {
			n, err := strconv.Atoi(text)
			if n = max(n, -n); err == nil && n > 1 { // many calls return 1 for every failure
				if e := errnoNumbered(n); e != nil {
					return e
				}
			}
		}
	}
	return nil
}
