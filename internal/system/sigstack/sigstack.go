// SPDX-License-Identifier: Apache-2.0

// Package sigstack keeps room for handlers of signals on the stacks of goroutines. A handler that a C program has
// installed without SA_ONSTACK runs on the stack of the code that it interrupts. In a call into Go that is a
// goroutine's, which has a few KB where a thread's has megabytes.
package sigstack

// Room is how many bytes Reserve makes room for: the kernel's frame of a signal, up to 11 KB with AMX, the registers
// that the dynamic linker saves when the handler calls a function for the first time, and the handler's own frames.
const Room = 64 << 10
