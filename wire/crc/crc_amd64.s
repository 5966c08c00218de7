// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// FOLD moves acc forward by what the constants k say, onto what is there.
#define FOLD(k, there, acc, t) \
	VPCLMULQDQ $0x00, k, acc, t     \
	VPCLMULQDQ $0x11, k, acc, acc   \
	VPTERNLOGQ $0x96, there, t, acc // the sum of the three

// func fold(table *foldTable, state uint32, data []byte) uint32
TEXT ·fold(SB), NOSPLIT, $0-44
	MOVQ            table+0(FP), DX
	MOVL            state+8(FP), AX
	MOVQ            data_base+16(FP), SI
	MOVQ            data_len+24(FP), CX
	VBROADCASTI32X4 foldTable_by64(DX), Z9
	NOTL            AX
	VMOVD           AX, X0
	VPXORQ          (SI), Z0, Z0           // the state adds to the first four bytes
	CMPQ            CX, $256
	JB              advance

	// Four blocks of 64 bytes at a time: one is still in the multiplier when the next starts.
	VMOVDQU64       64(SI), Z1
	VMOVDQU64       128(SI), Z2
	VMOVDQU64       192(SI), Z3
	VBROADCASTI32X4 foldTable_by256(DX), Z8

next:
	ADDQ $256, SI
	SUBQ $256, CX
	CMPQ CX, $256
	JB   join
	FOLD(Z8, 0(SI), Z0, Z4)
	FOLD(Z8, 64(SI), Z1, Z5)
	FOLD(Z8, 128(SI), Z2, Z6)
	FOLD(Z8, 192(SI), Z3, Z7)
	JMP  next

join:
	VBROADCASTI32X4 foldTable_by192(DX), Z5
	VBROADCASTI32X4 foldTable_by128(DX), Z6
	FOLD(Z5, Z3, Z0, Z4)
	FOLD(Z6, Z0, Z1, Z7)
	FOLD(Z9, Z1, Z2, Z8)
	VMOVDQA64       Z2, Z0
	JMP             single

advance:
	ADDQ $64, SI
	SUBQ $64, CX

single:
	CMPQ CX, $64
	JB   rest
	FOLD(Z9, (SI), Z0, Z4)
	JMP  advance

rest:
	TESTQ CX, CX
	JZ    reduce

	// Z0 and the CX bytes left are two blocks, the first with zeroes before it: Z0 turned
	// by CX ends with the first block's end, and starts with the start of the second.
	VPBROADCASTB CX, Z1
	VPADDB       foldTable_positions(DX), Z1, Z1
	VPERMB       Z0, Z1, Z1
	ADDQ         CX, SI
	NEGQ         CX
	MOVQ         $-1, AX
	SHLQ         CX, AX          // the last CX of 64: a shift counts modulo 64
	KMOVQ        AX, K1
	VMOVDQU8.Z   Z1, K1, Z0
	VMOVDQU8     -64(SI), K1, Z1
	FOLD(Z9, Z1, Z0, Z4)

reduce:
	// 512 bits to 96, times x^32.
	VMOVDQU64     foldTable_lanes(DX), Z1
	VPCLMULQDQ    $0x00, Z1, Z0, Z2
	VPCLMULQDQ    $0x11, Z1, Z0, Z0
	VPXORQ        Z2, Z0, Z0
	VEXTRACTI64X4 $1, Z0, Y1
	VPXOR         Y1, Y0, Y0
	VEXTRACTI128  $1, Y0, X1
	VPXOR         X1, X0, X0

	// 96 bits to 32, as Barrett does: take off P times the quotient of the upper 64, which are
	// the lower half of the register.
	VMOVDQU    foldTable_barrett(DX), X1
	VPCLMULQDQ $0x00, X1, X0, X2
	VPCLMULQDQ $0x10, X1, X2, X2
	VPXOR      X2, X0, X0
	VPEXTRD    $2, X0, AX
	NOTL       AX

	// SSE instructions are slow while upper halves are in use, and so are task switches.
	VZEROUPPER
	MOVL       AX, ret+40(FP)
	RET

// func cpuid(leaf uint32) (a, b, c uint32)
TEXT ·cpuid(SB), NOSPLIT, $0-20
	MOVL leaf+0(FP), AX
	XORL CX, CX
	CPUID
	MOVL AX, a+8(FP)
	MOVL BX, b+12(FP)
	MOVL CX, c+16(FP)
	RET

// func xgetbv() uint32
TEXT ·xgetbv(SB), NOSPLIT, $0-4
	XORL CX, CX
	XGETBV
	MOVL AX, ret+0(FP)
	RET
