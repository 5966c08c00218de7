// SPDX-License-Identifier: Apache-2.0

package peercred

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// SenderSpace is the space in bytes that the sender's part of a datagram's control messages takes.
var SenderSpace = unix.CmsgSpace(unix.SizeofUcred)

// TellSenders, the Control of a [net.ListenConfig], makes the kernel add the sender's credentials to each datagram.
func TellSenders(_, _ string, c syscall.RawConn) error {
	var failed error
	err := c.Control(func(fd uintptr) {
		failed = os.NewSyscallError("setsockopt SO_PASSCRED",
			unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1))
	})
	if err != nil {
		return err
	}
	return failed
}

// Sender returns the process that has sent a datagram, by its control messages; false: they do not say.
func Sender(oob []byte) (Holder, bool) {
	all, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return Holder{}, false
	}
	for i := range all {
		if cred, err := unix.ParseUnixCredentials(&all[i]); err == nil {
			return Holder{PID: int(cred.Pid), UID: int(cred.Uid)}, true
		}
	}
	return Holder{}, false
}
