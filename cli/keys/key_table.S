# The table of keys that write_key_table has written, in the program's read-only data.
        .section .rodata
        .global moelab_key_table_begin
moelab_key_table_begin:
        .incbin MOELAB_KEY_TABLE
        .global moelab_key_table_end
moelab_key_table_end:
        .byte 0
        .section .note.GNU-stack, "", %progbits
