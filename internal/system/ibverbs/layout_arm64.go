// SPDX-License-Identifier: Apache-2.0

//go:build linux

package ibverbs

// ctxABI is the offset of a context's abi_compat: behind a mutex, of 48 bytes here.
const ctxABI = CtxMutex + 48

// contextSize is the size of a context.
const contextSize = ctxABI + 8
