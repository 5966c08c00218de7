// SPDX-License-Identifier: Apache-2.0

//go:build linux

#include "textflag.h"

// Called as a function of C, on the system's stack: DI has the address of an Args.
//
//	fn 0, a 8, b 16, c 24, result 32
TEXT callThree(SB), NOSPLIT, $16
	MOVQ DI, 8(SP)
	MOVQ 0(DI), R10
	MOVQ 16(DI), SI
	MOVQ 24(DI), DX
	MOVQ 8(DI), DI
	XORL AX, AX
	CALL R10
	MOVQ 8(SP), DI
	MOVQ AX, 32(DI)
	XORL AX, AX
	RET

GLOBL ·callThreeAddress(SB), NOPTR|RODATA, $8
DATA ·callThreeAddress(SB)/8, $callThree(SB)
