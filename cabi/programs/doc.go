// SPDX-License-Identifier: Apache-2.0

// Package programs runs unmodified C programs on Ramjet's libibverbs.so.1, librdmacm.so.1 and
// libibumad.so.3.
// Packages of Debian that it needs: gcc libc6-dev libibverbs-dev librdmacm-dev ibverbs-utils
// rdmacm-utils perftest python3-pyverbs ucx-utils infiniband-diags fio qemu-system-x86
// openmpi-bin libopenmpi-dev.
// Programs that are not installed are skipped.
package programs
