// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"

// func returnAddresses(pcs []uintptr) int
TEXT ·returnAddresses(SB), NOSPLIT|NOFRAME, $0-32
	MOVD pcs_base+0(FP), R0
	MOVD pcs_len+8(FP), R1
	MOVD 8(g), R2           // g.stack.hi
	SUB  $16, R2
	MOVD RSP, R3
	SUB  $8, R3             // the frame record of a caller begins a word below its stack pointer
	MOVD R29, R4
	MOVD $0, R5

next:
	CMP  R1, R5
	BGE  done
	CMP  R3, R4             // frames are each above the one before
	BLO  done
	CMP  R2, R4
	BHI  done
	MOVD 8(R4), R6
	MOVD R6, (R0)
	ADD  $8, R0
	ADD  $1, R5
	ADD  $1, R4, R3
	MOVD (R4), R4
	B    next

done:
	MOVD R5, ret+24(FP)
	RET
