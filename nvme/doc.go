// SPDX-License-Identifier: Apache-2.0

// Package nvme is NVMe over RDMA in user space: a target that serves disks to hosts, and a host. Both run on any device
// of Ramjet, and speak to the kernels' nvme-rdma and nvmet-rdma.
//
// # Target
//
// A [Target] has subsystems, these have namespaces, and a namespace is on any io.ReaderAt, of a given size. Hosts find
// them at the ports that [Target.Listen] opens:
//
//	t := nvme.NewTarget(nvme.TargetOptions{})
//	sub, err := t.AddSubsystem(nvme.SubsystemOptions{NQN: "nqn.2026-01.org.example:disks", AnyHost: true})
//	err = sub.AddNamespace(nvme.Namespace{ID: 1, Disk: file, Size: size})
//	port, err := t.Listen(ctx, dev, ":4420")
//
// Namespaces are read-only unless Writable says otherwise. A subsystem lets in the hosts that it names, by NQN. A host
// chooses its NQN itself: the NQN keeps apart hosts that mean well, and proves nothing. Hosts in
// SubsystemOptions.Secrets prove their identity, by DH-HMAC-CHAP; see package dhchap.
//
// The memory that a host can make the target hold is bounded: see [TargetOptions]. A connection that breaks the
// protocol is closed.
//
// # Host
//
// [Dial] connects to a controller of a subsystem. Its namespaces are io.ReaderAt and io.WriterAt, also with contexts.
// [Discover] asks a discovery service for subsystems.
//
// When the connection is lost, the host connects again, and repeats the commands that were in flight: reads at once,
// commands that change something when the target has surely given up the connection before. [HostOptions] says how long
// it tries, and how long commands wait. Writes that no [Disk.Flush] has made durable may be lost with the target's
// cache: the next Flush says so, by [ErrWriteCacheLost].
//
// [DialMultipath] connects by several paths. Commands of a path that is lost, or does not reach the namespace any more,
// go by another one.
package nvme
