// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package ibverbs

import (
	"fmt"
	"path/filepath"
	"sync"

	"github.com/ebitengine/purego"
)

// Manager has the functions of librdmacm.so.1, the way to the kernel's connection manager.
type Manager struct {
	CreateEventChannel, DestroyEventChannel, GetEvent, AckEvent uintptr
	CreateID, DestroyID, SetOption                              uintptr
	BindAddr, Listen, ResolveAddr, ResolveRoute                 uintptr
	Connect, Establish, Accept, Reject, Disconnect, InitQPAttr  uintptr
	JoinMulticast, LeaveMulticast                               uintptr
}

var (
	loadingManager sync.Mutex
	loadedManager  *Manager
)

// LoadManager loads librdmacm.so.1 of the directory where libibverbs.so.1 is.
func (l *Library) LoadManager() (*Manager, error) {
	loadingManager.Lock()
	defer loadingManager.Unlock()
	if loadedManager != nil {
		return loadedManager, nil
	}
	path := filepath.Join(filepath.Dir(l.Path), "librdmacm.so.1")
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("connections need librdmacm.so.1 beside libibverbs.so.1 (Debian, Ubuntu: apt-get install librdmacm1): %w", err)
	}
	m := &Manager{}
	for _, f := range []struct {
		at   *uintptr
		name string
	}{
		{&m.CreateEventChannel, "rdma_create_event_channel"}, {&m.DestroyEventChannel, "rdma_destroy_event_channel"},
		{&m.GetEvent, "rdma_get_cm_event"},
		{&m.AckEvent, "rdma_ack_cm_event"}, {&m.CreateID, "rdma_create_id"}, {&m.DestroyID, "rdma_destroy_id"},
		{&m.SetOption, "rdma_set_option"},
		{&m.BindAddr, "rdma_bind_addr"}, {&m.Listen, "rdma_listen"}, {&m.ResolveAddr, "rdma_resolve_addr"},
		{&m.ResolveRoute, "rdma_resolve_route"},
		{&m.Connect, "rdma_connect"}, {&m.Establish, "rdma_establish"}, {&m.Accept, "rdma_accept"},
		{&m.Reject, "rdma_reject"},
		{&m.Disconnect, "rdma_disconnect"}, {&m.InitQPAttr, "rdma_init_qp_attr"},
		{&m.JoinMulticast, "rdma_join_multicast"}, {&m.LeaveMulticast, "rdma_leave_multicast"},
	} {
		if *f.at, err = purego.Dlsym(handle, f.name); err != nil {
			return nil, fmt.Errorf("%s is no librdmacm.so.1 of rdma-core: %w", path, err)
		}
	}
	loadedManager = m
	return m, nil
}
