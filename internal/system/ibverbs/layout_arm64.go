// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ibverbs

// ctxABI is where a context's abi_compat is: behind a mutex, of 48 bytes here.
const ctxABI = CtxMutex + 48

// contextSize is the size of a context.
const contextSize = ctxABI + 8
