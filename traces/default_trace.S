# The default trace in the program's read-only data.
        .section .rodata
        .balign 64
        .global moelab_default_trace_begin
moelab_default_trace_begin:
        .incbin MOELAB_DEFAULT_TRACE
        .global moelab_default_trace_end
moelab_default_trace_end:
        .byte 0
        .section .note.GNU-stack, "", %progbits
