// SPDX-License-Identifier: Apache-2.0

//go:build !purego

#include "go_asm.h"
#include "textflag.h"

// FOLD moves acc forward by what the constants k say, onto what is there.
#define FOLD(k, there, acc, t) \
	VPCLMULQDQ $0x00, k, acc, t     \
	VPCLMULQDQ $0x11, k, acc, acc   \
	VPTERNLOGQ $0x96, there, t, acc // the sum of the three

// REDUCE makes the CRC of Z0: first 512 bits become 96, times x^32; then these become 32 as Barrett
// does, taking off P times the quotient of the upper 64, which are the lower half of the
// register. SSE instructions are slow while upper halves are in use, and so are task switches.
#define REDUCE(table, crc) \
	VMOVDQU64     foldTable_lanes(table), Z1       \
	VPCLMULQDQ    $0x00, Z1, Z0, Z2                \
	VPCLMULQDQ    $0x11, Z1, Z0, Z0                \
	VPXORQ        Z2, Z0, Z0                       \
	VEXTRACTI64X4 $1, Z0, Y1                       \
	VPXOR         Y1, Y0, Y0                       \
	VEXTRACTI128  $1, Y0, X1                       \
	VPXOR         X1, X0, X0                       \
	VMOVDQU       foldTable_barrett(table), X1     \
	VPCLMULQDQ    $0x00, X1, X0, X2                \
	VPCLMULQDQ    $0x10, X1, X2, X2                \
	VPXOR         X2, X0, X0                       \
	VPEXTRD       $2, X0, crc                      \
	NOTL          crc                              \
	VZEROUPPER

// JOIN folds the four blocks in Z0 to Z3 onto one, Z0.
#define JOIN(table) \
	VBROADCASTI32X4 foldTable_by192(table), Z5 \
	VBROADCASTI32X4 foldTable_by128(table), Z6 \
	FOLD(Z5, Z3, Z0, Z4)                       \
	FOLD(Z6, Z0, Z1, Z7)                       \
	FOLD(Z9, Z1, Z2, Z8)                       \
	VMOVDQA64       Z2, Z0

// TAIL folds the n bytes left, 1 to 63, onto Z0, which moves by as many. from goes to their end; K1
// are their places in Z1, which holds them: the last n of 64, as a shift counts modulo 64.
#define TAIL(table, from, n, t) \
	ADDQ            n, from                        \
	MOVQ            n, t                           \
	SHLQ            $4, t                          \
	VBROADCASTI32X4 foldTable_by(table)(t*1), Z5   \
	NEGQ            n                              \
	MOVQ            $-1, t                         \
	SHLQ            n, t                           \
	KMOVQ           t, K1                          \
	VMOVDQU8.Z      -64(from), K1, Z1              \
	FOLD(Z5, Z1, Z0, Z4)

// func fold512(table *foldTable, state uint32, data []byte) uint32
TEXT ·fold512(SB), NOSPLIT, $0-44
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
	JOIN(DX)
	JMP single

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
	TAIL(DX, SI, CX, AX)

reduce:
	REDUCE(DX, AX)
	MOVL AX, ret+40(FP)
	RET

// PASS copies 64 bytes and folds acc onto them.
#define PASS(k, off, acc, t, block) \
	VMOVDQU64 off(SI), block \
	VMOVDQU64 block, off(DI) \
	FOLD(k, block, acc, t)

// func copyFold512(table *foldTable, state uint32, dst *byte, src []byte) uint32
TEXT ·copyFold512(SB), NOSPLIT, $0-52
	MOVQ            table+0(FP), DX
	MOVL            state+8(FP), AX
	MOVQ            dst+16(FP), DI
	MOVQ            src_base+24(FP), SI
	MOVQ            src_len+32(FP), CX
	VBROADCASTI32X4 foldTable_by64(DX), Z9
	NOTL            AX
	VMOVD           AX, X0
	VMOVDQU64       (SI), Z1
	VMOVDQU64       Z1, (DI)
	VPXORQ          Z1, Z0, Z0
	CMPQ            CX, $256
	JB              advance
	VMOVDQU64       64(SI), Z1
	VMOVDQU64       Z1, 64(DI)
	VMOVDQU64       128(SI), Z2
	VMOVDQU64       Z2, 128(DI)
	VMOVDQU64       192(SI), Z3
	VMOVDQU64       Z3, 192(DI)
	VBROADCASTI32X4 foldTable_by256(DX), Z8

next:
	ADDQ $256, SI
	ADDQ $256, DI
	SUBQ $256, CX
	CMPQ CX, $256
	JB   join
	PASS(Z8, 0, Z0, Z4, Z10)
	PASS(Z8, 64, Z1, Z5, Z11)
	PASS(Z8, 128, Z2, Z6, Z12)
	PASS(Z8, 192, Z3, Z7, Z13)
	JMP  next

join:
	JOIN(DX)
	JMP single

advance:
	ADDQ $64, SI
	ADDQ $64, DI
	SUBQ $64, CX

single:
	CMPQ CX, $64
	JB   rest
	PASS(Z9, 0, Z0, Z4, Z10)
	JMP  advance

rest:
	TESTQ CX, CX
	JZ    reduce
	ADDQ  CX, DI
	TAIL(DX, SI, CX, AX)
	VMOVDQU8 Z1, K1, -64(DI)

reduce:
	REDUCE(DX, AX)
	MOVL AX, ret+48(FP)
	RET
