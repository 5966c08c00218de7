// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/internal/system/ibverbs"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// Open opens a device by the name that the kernel has for it, such as mlx5_0. An empty name stands for the
// only device there is. The error is [verbs.ErrNotFound] if the host has no such device, no RDMA in its kernel or
// no libibverbs.so.1.
func Open(name string) (*verbs.Device, error) {
	lib, err := ibverbs.Load()
	if errors.Is(err, ibverbs.ErrNoLibrary) {
		return nil, absent("kernel: " + err.Error())
	}
	if err != nil {
		return nil, fmt.Errorf("kernel: %w", err)
	}
	n := new(int32)
	table, errno := lib.CallErrno(lib.GetDeviceList, uintptr(unsafe.Pointer(n)))
	if table == 0 {
		return nil, fmt.Errorf("kernel: listing devices: %w", noList(errno))
	}
	defer lib.CallErrno(lib.FreeDeviceList, table)
	devices := unsafe.Slice(ibverbs.Pointer[uintptr](table), int(*n))
	var names []string
	for _, c := range devices {
		names = append(names, ibverbs.Text(c+ibverbs.DeviceName, 64))
	}
	i, err := choose(names, name)
	if err != nil {
		return nil, err
	}
	ctx, errno := lib.CallErrno(lib.OpenDevice, devices[i])
	if ctx == 0 {
		return nil, fmt.Errorf("kernel: opening %s: %w", names[i],
			notOpened(errno, ibverbs.Text(devices[i]+ibverbs.DeviceUverbs, 64)))
	}
	d, err := newDevice(lib, ctx, names[i])
	if err != nil {
		lib.CallErrno(lib.CloseDevice, ctx)
		return nil, fmt.Errorf("kernel: opening %s: %w", names[i], err)
	}
	return statsocket.Publish(driver.NewDevice(d)), nil
}

func noList(errno syscall.Errno) error {
	if errno == syscall.ENOSYS {
		return absent("the kernel has no RDMA: `modprobe ib_uverbs` loads it")
	}
	return errno
}

// realErrno returns why a device file cannot be opened. Where libibverbs may not open one, it looks for others of the
// same number, and says in the end that there is none.
func realErrno(said syscall.Errno, file string) syscall.Errno {
	if said != syscall.ENOENT && said != syscall.ENODEV && said != syscall.ENXIO {
		return said
	}
	fd, err := syscall.Open(file, syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err == nil {
		syscall.Close(fd)
	}
	if errno, ok := err.(syscall.Errno); ok {
		return errno
	}
	return said
}

// notOpened has a remedy for a device that cannot be opened.
func notOpened(errno syscall.Errno, uverbs string) error {
	switch errno = realErrno(errno, "/dev/infiniband/"+uverbs); errno {
	case syscall.EACCES, syscall.EPERM:
		return fmt.Errorf("%w: the process must be allowed to read and write /dev/infiniband/%s, also by the cgroup of its container (--device)", errno, uverbs)
	case syscall.ENOENT, syscall.ENXIO:
		return fmt.Errorf("%w: /dev/infiniband/%s is not there: `modprobe ib_uverbs`, and give it to a container with --device", errno, uverbs)
	case syscall.EAGAIN:
		return fmt.Errorf("%w: the control group of this process leaves nothing of the device (rdma.max): `ramjet doctor` shows which limit, and how to raise it", errno)
	case 0:
		return errors.New("the library does not say why")
	}
	return errno
}
