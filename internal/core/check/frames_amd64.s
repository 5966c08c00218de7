// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "textflag.h"

// func returnAddresses(pcs []uintptr) int
TEXT ·returnAddresses(SB), NOSPLIT|NOFRAME, $0-32
	MOVQ pcs_base+0(FP), DI
	MOVQ pcs_len+8(FP), SI
	MOVQ (TLS), AX
	MOVQ 8(AX), DX          // g.stack.hi
	SUBQ $16, DX
	MOVQ SP, R8
	MOVQ BP, BX
	XORL CX, CX

next:
	CMPQ CX, SI
	JGE  done
	CMPQ BX, R8             // frames are each above the one before
	JLS  done
	CMPQ BX, DX
	JHI  done
	MOVQ 8(BX), AX
	MOVQ AX, (DI)(CX*8)
	INCQ CX
	MOVQ BX, R8
	MOVQ (BX), BX
	JMP  next

done:
	MOVQ CX, ret+24(FP)
	RET
